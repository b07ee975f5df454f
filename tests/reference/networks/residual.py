"""ResNet-50, ResNeXt-50 and VGG-16."""
from torch import nn
from torch.nn import functional as F

BLOCKS = [3, 4, 6, 3]


class Bottleneck(nn.Module):
    """1x1, 3x3 (which has the stride and the groups), 1x1, and the shortcut."""

    def __init__(self, channels, width, out, stride, groups):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = nn.Identity()
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class PlainBlock(nn.Module):
    """Of resnext-50@artifact: biases, neither batch norm nor shortcut."""

    def __init__(self, channels, width, out, stride, groups):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, groups=groups)
        self.conv3 = nn.Conv2d(width, out, 1)

    def forward(self, x):
        return F.relu(self.conv3(F.relu(self.conv2(F.relu(self.conv1(x))))))


class ResNet(nn.Module):
    """`width` of the 3x3 convolutions of the first stage, `expansion` times that its results."""

    def __init__(self, image, classes, stem, width, expansion, groups=1, block=Bottleneck):
        super().__init__()
        self.conv1 = nn.Conv2d(3, stem, 7, 2, 3, bias=block is PlainBlock)
        self.bn1 = nn.Identity() if block is PlainBlock else nn.BatchNorm2d(stem)
        channels = stem
        for stage, count in enumerate(BLOCKS):
            blocks = []
            for i in range(count):
                blocks.append(block(channels, width, expansion * width, 2 if stage > 0 and i == 0 else 1, groups))
                channels = expansion * width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            width *= 2
        self.fc = nn.Linear(channels, classes)
        self.inputs = {"image": (3, image, image), "labels": classes}

    def forward(self, image, labels):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(image))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return F.cross_entropy(self.fc(x.mean((2, 3))), labels)


class Vgg16(nn.Module):
    def __init__(self, image, classes, hidden, divisor):
        super().__init__()
        layers, channels = [], 3
        for width, count in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]:
            for _ in range(count):
                layers += [nn.Conv2d(channels, width // divisor, 3, padding=1), nn.ReLU()]
                channels = width // divisor
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        side = image // 32
        # Dropout, which Unity leaves out, has places 2 and 5.
        self.classifier = nn.Sequential(nn.Linear(channels * side * side, hidden), nn.ReLU(), nn.Identity(),
                                        nn.Linear(hidden, hidden), nn.ReLU(), nn.Identity(),
                                        nn.Linear(hidden, classes))
        self.inputs = {"image": (3, image, image), "labels": classes}

    def forward(self, image, labels):
        return F.cross_entropy(self.classifier(self.features(image).flatten(1)), labels)
