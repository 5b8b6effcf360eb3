# Linnet in a container: target `cpu` (the default) and target `cuda`.
#
#   docker build -t linnet .                      docker run --rm -p 8080:8080 linnet
#   docker build -t linnet:cuda --target cuda .   docker run --rm -p 8080:8080 --gpus all linnet:cuda
#   docker buildx build --platform linux/amd64,linux/arm64 -t NAME --push .     cpu, for both processors
#
# The program is compiled on the machine that builds, for whichever processor; only the installation of the
# libraries that it runs with is left to qemu where the image is for another one.
#
# The models of weights/ are inside, at /models; a volume there replaces them. The program is the only
# process, runs as user 10001, writes nothing, needs no shell, and ends on SIGTERM when its answers are
# done. Every option is an environment variable too (docs/operations.md).

# Any Debian 12, for example a mirror's copy of it.
ARG BASE=debian:bookworm-slim
# Packages of pip that compile the CUDA back end, and the one library that it loads.
ARG CUDA_BUILD_PACKAGES="nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 \
nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-cublas==13.1.0.3"
ARG CUDA_LIBRARIES="libcublasLt.so.13"
ARG CUDA_ARCHITECTURES="80-real;90-real;100"

# The defaults after :- are for builders without BuildKit, which do not set these variables.
FROM --platform=${BUILDPLATFORM:-linux/amd64} ${BASE} AS tools
ARG TARGETARCH
COPY scripts/deps /source/scripts/deps
RUN /source/scripts/deps "build${TARGETARCH:+:$TARGETARCH}" && rm -rf /var/lib/apt/lists/*

FROM tools AS source
COPY . /source
WORKDIR /source

# The commit that --version prints: --build-arg COMMIT="$(git rev-parse --short=12 HEAD)".
FROM source AS build
ARG COMMIT=""
# native compiles the CPU back end only for the processor that builds: for an image that stays there, as in tests.
ARG INSTRUCTION_SETS=all
# Further options of CMake, by spaces apart.
ARG CMAKE_OPTIONS=""
ARG TARGETARCH
RUN cmake -B build -DCMAKE_BUILD_TYPE=Release -DLINNET_TESTS=OFF -DLINNET_CUDA=OFF -DCMAKE_INSTALL_LIBDIR=lib \
        -DLINNET_ARCH="${TARGETARCH:-}" -DLINNET_COMMIT="${COMMIT}" -DLINNET_INSTRUCTION_SETS="${INSTRUCTION_SETS}" \
        ${CMAKE_OPTIONS} \
    && cmake --build build --parallel "$(nproc)" \
    && cmake --install build --strip --prefix /out \
    && mv /out/share/linnet/models /out/models && chmod -R a+rX /out

# The same sources with the CUDA back end; only the library of it goes into the image.
FROM tools AS cuda-tools
ARG CUDA_BUILD_PACKAGES
ARG TARGETARCH
RUN [ "${TARGETARCH:-$(dpkg --print-architecture)}" = "$(dpkg --print-architecture)" ] \
    || { echo "target cuda is built on a machine of the processor it is for" >&2; exit 1; }
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends g++ python3-pip \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m pip install -q --no-cache-dir --no-deps --target /opt/wheels ${CUDA_BUILD_PACKAGES} \
    && mv /opt/wheels/nvidia/cu13 /opt/cuda && rm -r /opt/wheels && ln -s lib /opt/cuda/lib64 \
    && cd /opt/cuda/lib && for f in *.so.*; do ln -sf "$f" "${f%%.so.*}.so"; done

FROM cuda-tools AS cuda-build
ARG CUDA_LIBRARIES
ARG CUDA_ARCHITECTURES
COPY . /source
WORKDIR /source
RUN cmake -B build -DCMAKE_BUILD_TYPE=Release -DLINNET_TESTS=OFF -DLINNET_CUDA=ON -DCMAKE_INSTALL_LIBDIR=lib \
        -DCUDAToolkit_ROOT=/opt/cuda "-DLINNET_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES}" \
    && cmake --build build --parallel "$(nproc)" --target kernels_cuda \
    && install -D --strip build/libkernels_cuda.so /out/lib/libkernels_cuda.so \
    && for f in ${CUDA_LIBRARIES}; do cp "/opt/cuda/lib/$f" /out/lib/; done

# What both images run on. The platform is said because Podman 4.3 else takes that of the first stage.
FROM --platform=${TARGETPLATFORM:-linux/amd64} ${BASE} AS runtime
COPY scripts/deps /tmp/deps
# The link lets commands find the models by their names.
RUN /tmp/deps run && rm -rf /tmp/deps /var/lib/apt/lists/* /var/cache/* /var/log/* \
    && mkdir -p /usr/local/share/linnet && ln -s /models /usr/local/share/linnet/models
USER 10001:10001
ENV LINNET_HOST=0.0.0.0 LINNET_PORT=8080
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["linnet", "health"]
ENTRYPOINT ["linnet"]
CMD ["serve", "--models", "/models"]

FROM runtime AS cuda
# For the container runtime that hands in the driver.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility LD_LIBRARY_PATH=/usr/local/lib \
    LINNET_DEVICE=cuda
COPY --from=cuda-build /out/lib /usr/local/lib
COPY --from=build /out/models /models
COPY --from=build /out/bin/linnet /usr/local/bin/linnet

# Last, so that it is built when no target is named.
FROM runtime AS cpu
COPY --from=build /out/models /models
COPY --from=build /out/bin/linnet /usr/local/bin/linnet
